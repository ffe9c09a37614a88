import { torture } from "./torture.ts";

torture("SQLite", null);
