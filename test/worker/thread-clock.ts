/**
 * Loaded before a program: gives its threads another monotonic clock than the main thread has. Behind: it counts from the
 * start of the thread, as on Bun and Deno.
 */
import { isMainThread } from "node:worker_threads";

const HOUR_NS = 3_600_000_000_000n;

const read = process.hrtime.bigint.bind(process.hrtime);
const offset = process.env["THREAD_CLOCK"] === "ahead" ? HOUR_NS : -read();
if (!isMainThread) process.hrtime.bigint = () => read() + offset;
