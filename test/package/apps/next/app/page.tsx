import { greet, jobs } from "../lib/jobs";

export const dynamic = "force-dynamic";

export default async function Page() {
  const job = await (await jobs()).enqueue(greet, { name: "Ada" });
  return <p>enqueued {job.task}</p>;
}
