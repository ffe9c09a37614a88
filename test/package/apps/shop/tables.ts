import { integer, pgTable, text } from "drizzle-orm/pg-core";

export const orders = pgTable("orders", {
  id: text("id").primaryKey(),
  state: text("state").notNull(),
});

export const invoices = pgTable("invoices", {
  order: text("order").primaryKey(),
  cents: integer("cents").notNull(),
});

/** As an application without migrations does at its start. */
export const CREATE = `
create table if not exists orders (id text primary key, state text not null);
create table if not exists invoices ("order" text primary key, cents integer not null)`;
