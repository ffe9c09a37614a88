import { chaos, servers } from "./chaos.ts";

for (const server of servers) if (server.name === "MariaDB") chaos(server);
