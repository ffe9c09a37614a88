import { chaos, servers } from "./chaos.ts";

for (const server of servers) if (server.name === "PostgreSQL") chaos(server);
