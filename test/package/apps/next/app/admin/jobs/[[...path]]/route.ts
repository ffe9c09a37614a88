import { dashboardHandler } from "holdfast/dashboard";
import { jobs } from "../../../../lib/jobs";

let handler: ReturnType<typeof dashboardHandler> | undefined;

async function dashboard(request: Request): Promise<Response> {
  handler ??= dashboardHandler({
    holdfast: await jobs(),
    basePath: "/admin/jobs",
    principal: async () => ({ name: "ada", role: "viewer" }),
  });
  return handler(request);
}

export { dashboard as GET, dashboard as POST };
