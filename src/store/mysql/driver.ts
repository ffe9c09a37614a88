/** As much of the driver as we use. Said here, so that our types do not ask for the driver's. */
import { StoreUnavailable } from "../../core/errors.ts";
import type { MysqlAddress } from "./options.ts";

const CONNECT_MS_MAX = 10_000;
const KEEP_ALIVE_AFTER_MS = 10_000;

export interface Driver {
  createConnection(config: object): Promise<DriverConnection>;
  format(text: string, values: unknown): string;
}

export interface Query {
  readonly sql: string;
  readonly rowsAsArray: boolean;
  readonly values?: readonly unknown[];
}

export interface DriverConnection {
  readonly threadId: number;
  query(query: Query): Promise<[unknown, unknown]>;
  on(event: "error" | "end", listener: () => void): unknown;
  end(): Promise<void>;
  destroy(): void;
  /** What lies under the promises. */
  readonly connection: { readonly stream: { destroy(): void; ref(): void; unref(): void } };
}

export async function loadDriver(): Promise<Driver> {
  try {
    return (await import("mysql2/promise")) as unknown as Driver;
  } catch (error) {
    throw new StoreUnavailable(
      {
        problem: "The driver for MySQL and MariaDB is not installed.",
        remedy: "Run: npm install mysql2",
      },
      error,
    );
  }
}

export function connect(driver: Driver, address: MysqlAddress): Promise<DriverConnection> {
  const { host, port, user, password, database, socket } = address;
  return driver.createConnection({
    ...(socket === null ? { host, port } : { socketPath: socket }),
    user,
    password,
    database,
    ...tlsConfig(address),
    charset: "UTF8MB4_BIN",
    connectTimeout: CONNECT_MS_MAX,
    enableKeepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS,
    multipleStatements: true,
    decimalNumbers: true, // a count or a sum is a number, not a text
    // In our own statements values stand in the text already: nobody has to look for places for them.
    queryFormat: (text: string, values?: unknown) =>
      values === undefined || values === null ? text : driver.format(text, values),
    // An UPDATE counts the rows it found, not those it changed; and no server reads files of ours.
    flags: ["FOUND_ROWS", "-LOCAL_FILES"],
  });
}

function tlsConfig({ tls }: MysqlAddress): object {
  if (tls === null) return {};
  const { verify, authorities } = tls;
  return {
    ssl: {
      rejectUnauthorized: verify !== "nothing",
      verifyIdentity: verify === "identity",
      ...(authorities === null ? {} : { ca: authorities }),
    },
  };
}
