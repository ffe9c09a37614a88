/** Orders over HTTP: an order and its job are written in one transaction, and paid by a worker in the same process. */
import express, { type Request, type Response } from "express";
import { drizzle } from "drizzle-orm/node-postgres";
import { openHoldfast } from "holdfast";
import { dashboardHandler, toNodeListener } from "holdfast/dashboard";
import { Pool } from "pg";
import { CREATE, invoices, orders } from "./tables.ts";
import { pay } from "./tasks.ts";

const url = process.env["DATABASE_URL"] ?? "";
const pool = new Pool({ connectionString: url });
await pool.query(CREATE);
const db = drizzle(pool);
const holdfast = await openHoldfast(url, { logger: console });
await holdfast.startWorker({ tasks: [pay] });

const app = express();
app.use(
  "/admin/jobs",
  toNodeListener(
    dashboardHandler({
      holdfast,
      basePath: "/admin/jobs",
      principal: async () => ({ name: "ada", role: "viewer" }),
    }),
  ),
);
app.use(express.json());

app.post("/orders", async (request: Request, response: Response) => {
  const {
    id,
    cents,
    broken = false,
  } = request.body as { id: string; cents: number; broken?: boolean };
  try {
    const job = await db.transaction(async (tx) => {
      await tx.insert(orders).values({ id, state: "open" });
      const enqueued = await holdfast.within(tx).enqueue(pay, { order: id, cents }, { key: id });
      if (broken) throw new Error("the card was refused");
      return enqueued;
    });
    response.status(201).json({ job: job.id });
  } catch (error) {
    response.status(409).json({ error: String(error) });
  }
});

app.get("/orders", async (_request: Request, response: Response) => {
  const [all, billed] = [await db.select().from(orders), await db.select().from(invoices)];
  const jobs = await holdfast.jobs.list({ limit: 100 });
  response.json({ orders: all, invoices: billed, jobs: jobs.map(({ status }) => status) });
});

const server = app.listen(0, "127.0.0.1", () => {
  const address = server.address();
  console.log(`port ${typeof address === "object" ? address?.port : address}`);
});

process.once("SIGTERM", async () => {
  server.close();
  server.closeAllConnections();
  await holdfast.close();
  await pool.end();
});
