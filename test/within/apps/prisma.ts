/** Applications that use Prisma. */
import { PrismaMariaDb } from "@prisma/adapter-mariadb";
import { PrismaPg } from "@prisma/adapter-pg";
import { getPrismaClient } from "@prisma/client/runtime/client";
import { Rollback, rolledBack, type App, type Kind } from "./app.ts";

type Provider = "postgresql" | "mysql";

/** What `prisma generate` writes for a schema without models, by hand: the command itself downloads an engine. */
function clientFor(provider: Provider): any {
  const compiler = `@prisma/client/runtime/query_compiler_fast_bg.${provider}`;
  return getPrismaClient({
    previewFeatures: [],
    clientVersion: "7.10.0",
    engineVersion: "0",
    activeProvider: provider,
    inlineSchema: `datasource db {\n  provider = "${provider}"\n}\n`,
    runtimeDataModel: { models: {}, enums: {}, types: {} },
    parameterizationSchema: { strings: [], graph: "AAAA" },
    compilerWasm: {
      getRuntime: () => import(`${compiler}.mjs`),
      async getQueryCompilerWasmModule() {
        const { wasm } = await import(`${compiler}.wasm-base64.mjs`);
        return new (globalThis as any).WebAssembly.Module(Buffer.from(wasm, "base64"));
      },
      importName: "./query_compiler_fast_bg.js",
    },
  });
}

function open(provider: Provider, adapter: unknown): App {
  const Client = clientFor(provider);
  const db = new Client({ adapter });
  return {
    over: /Transaction/,
    notTx: [[db, /prisma\.\$transaction/]],
    order: async (tx, id) => void (await tx.$executeRawUnsafe(`insert into orders values (${id})`)),
    transaction: (body, options) =>
      db.$transaction(body, options?.serializable ? { isolationLevel: "Serializable" } : {}),
    nested: (outer, inner) =>
      db.$transaction(async (tx: any) => {
        await outer(tx);
        await rolledBack(() =>
          tx.$transaction(async (deeper: any) => {
            await inner(deeper);
            throw new Rollback();
          }),
        );
      }),
    [Symbol.asyncDispose]: () => db.$disconnect(),
  };
}

export const prismas: readonly Kind[] = [
  {
    name: "Prisma",
    database: "PostgreSQL",
    open: async (url) => open("postgresql", new PrismaPg({ connectionString: url })),
  },
  {
    name: "Prisma",
    database: "MariaDB",
    open: async (url) => open("mysql", new PrismaMariaDb(url)),
  },
];
