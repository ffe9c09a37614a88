/** What the scaler asks PostgreSQL is a statement that its tables answer. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client } from "pg";
import { parseAllDocuments } from "yaml";
import { openStore } from "../../src/app/store.ts";
import { missing, scratchDatabase } from "../support/servers.ts";

const file = new URL("../../deploy/kubernetes/keda-postgresql.yaml", import.meta.url);

interface Scaled {
  readonly spec: {
    readonly triggers?: readonly { readonly metadata: { readonly query: string } }[];
  };
}

test("the scaler reads how many jobs are pending", { skip: missing("postgres") }, async () => {
  const documents = parseAllDocuments(readFileSync(file, "utf8"));
  const [query] = documents.flatMap((document) => {
    const { triggers = [] } = (document.toJS() as Scaled).spec;
    return triggers.map(({ metadata }) => metadata.query);
  });
  await using database = await scratchDatabase("postgres");
  const store = await openStore(database.url);
  await store.migrate();
  await store.close();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  const ask = async (): Promise<number> => {
    const { rows } = await client.query<{ coalesce: string }>(String(query));
    return Number(rows[0]?.coalesce);
  };
  try {
    assert.equal(await ask(), 0);
    await client.query(
      "insert into holdfast.depth (queue, status, jobs) values ('default', 'pending', 7), ('default', 'done', 9), ('other', 'pending', 3)",
    );
    assert.equal(await ask(), 7);
  } finally {
    await client.end();
  }
});
