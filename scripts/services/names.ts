/** The servers and tools that tests may need: what they are called, and how each is had. */

export const SERVERS = ["postgres", "mysql", "redis", "pgbouncer"] as const;

export type ServerName = (typeof SERVERS)[number];

/** Programs that tests run and that are no servers. */
export const TOOLS = ["isolationtester", "promtool", "chromium"] as const;

export type ToolName = (typeof TOOLS)[number];

/** Everything a group of tests can ask for. */
export type Need = ServerName | ToolName;

interface Known {
  readonly label: string;
  /** Names one that is there already; a test finds here what it may use. */
  readonly variable: string;
  /** Why it is not there, for the tests that have to leave it out. */
  readonly missingVariable: string;
  readonly programs: readonly string[];
  /** The Debian packages that bring the programs. */
  readonly packages: readonly string[];
}

export const KNOWN: Readonly<Record<Need, Known>> = {
  postgres: {
    label: "PostgreSQL",
    variable: "HOLDFAST_TEST_POSTGRES_URL",
    missingVariable: "HOLDFAST_TEST_POSTGRES_MISSING",
    programs: ["initdb", "postgres", "pg_basebackup"],
    packages: ["postgresql"],
  },
  mysql: {
    label: "MariaDB",
    variable: "HOLDFAST_TEST_MYSQL_URL",
    missingVariable: "HOLDFAST_TEST_MYSQL_MISSING",
    programs: ["mariadb-install-db", "my_print_defaults", "mariadbd"],
    // The cores alone: no service, no data folder, nothing that starts at boot.
    packages: ["mariadb-server-core", "mariadb-client-core"],
  },
  redis: {
    label: "Redis",
    variable: "HOLDFAST_TEST_REDIS_URL",
    missingVariable: "HOLDFAST_TEST_REDIS_MISSING",
    programs: ["redis-server"],
    packages: ["redis-server"],
  },
  pgbouncer: {
    label: "PgBouncer",
    variable: "HOLDFAST_TEST_PGBOUNCER_URL",
    missingVariable: "HOLDFAST_TEST_PGBOUNCER_MISSING",
    programs: ["pgbouncer"],
    packages: ["pgbouncer"],
  },
  isolationtester: {
    label: "PostgreSQL's isolationtester",
    variable: "HOLDFAST_TEST_ISOLATIONTESTER",
    missingVariable: "HOLDFAST_TEST_ISOLATIONTESTER_MISSING",
    programs: ["isolationtester"],
    // Debian ships it with the client, which brings the build files of extensions.
    packages: ["postgresql-client"],
  },
  promtool: {
    label: "Prometheus' promtool",
    variable: "HOLDFAST_TEST_PROMTOOL",
    missingVariable: "HOLDFAST_TEST_PROMTOOL_MISSING",
    programs: ["promtool"],
    // Brings the server, too, which the policy of install.ts keeps from starting.
    packages: ["prometheus"],
  },
  chromium: {
    label: "Chromium",
    variable: "HOLDFAST_TEST_CHROMIUM",
    missingVariable: "HOLDFAST_TEST_CHROMIUM_MISSING",
    programs: ["chromium"],
    packages: ["chromium"],
  },
};

/** The servers, separated by commas, that were started for this run: no other run uses them. */
export const OWNED_VARIABLE = "HOLDFAST_TEST_SERVERS_OWNED";

/** Data folders to copy, so that a server of a test's own starts in a moment. */
export const TEMPLATES_VARIABLE = "HOLDFAST_TEST_TEMPLATES";

/** What the names of all scratch databases of one run begin with. */
export const SCRATCH_VARIABLE = "HOLDFAST_TEST_SCRATCH";
