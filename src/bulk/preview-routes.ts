/** Bulk actions with a preview over HTTP. */
import { z } from "zod";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Redaction } from "../config/redaction.ts";
import type { BulkFilter, BulkRequest } from "./request.ts";
import { previewBulk, PREVIEW_MINUTES, type PreviewParts, startPreviewed } from "./preview.ts";
import { bulkBody, bulkSchema, refuseHidden } from "./routes.ts";
import type { BulkRecord } from "./store.ts";

const TAG = "bulk";

/** `onStart` wakes the process that carries it out. */
export function previewRoutes(
  parts: PreviewParts & { readonly redaction: Redaction },
  onStart: () => void,
): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/bulk/preview",
      name: "previewBulk",
      tag: TAG,
      summary: "Count the jobs that a bulk action would change, and get a token that starts it",
      access: "operator",
      agent: `Count the jobs that a bulk action would change; it changes none. Look at matched and sample, then call startPreviewedBulk with the token within ${PREVIEW_MINUTES} minutes. While the status is running, call getBulk with the token as its id.`,
      body: bulkBody.omit({ dryRun: true }),
      answers: {
        201: {
          description: "The dry run. Its token starts the action.",
          schema: z.object({ token: s.id, preview: bulkSchema }),
        },
      },
      repeatable: true,
      location: (json) => `/api/v1/bulk/${(json as { token: string }).token}`,
      run: async (call) => {
        const { reason: _reason, ...request } = call.body;
        refuseHidden(parts.redaction, request.filter as BulkFilter);
        const asked = { ...request, filter: withoutUndefined(request.filter as object) };
        const [token = ""] = call.ids;
        const wanted = withoutUndefined(asked) as BulkRequest;
        const preview = await previewBulk(parts, wanted, auditedBy(call), token);
        onStart();
        return { status: 201, json: { token, preview } };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/bulk/start",
      name: "startPreviewedBulk",
      tag: TAG,
      summary: "Start the bulk action of a preview, for the jobs that matched then",
      access: "operator",
      agent:
        "Start the bulk action that previewBulk counted, by its token. Jobs that match since then are left alone. Follow it with getBulk.",
      body: z.strictObject({ token: s.id, reason: s.reason.optional() }),
      answers: { 201: { description: "The stored action.", schema: bulkSchema } },
      problems: [404, 409],
      repeatable: true,
      location: (json) => `/api/v1/bulk/${(json as BulkRecord).id}`,
      run: async (call) => {
        const started = await startPreviewed(parts, call.body.token, auditedBy(call));
        onStart();
        return { status: 201, json: started };
      },
    }),
  ];
}
