/** Schemas that the routes of all features share: scalars, pages and problems. Each feature has its own beside its routes. */
import { z } from "zod";
import { statuses } from "../core/job.ts";
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX, TAG_LENGTH_MAX } from "../core/name.ts";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** No control characters: some databases reject them. */
const TEXT = /^\P{Cc}*$/u;
const DURATION_LENGTH_MAX = 64;
const WORKER_LENGTH_MAX = 255;
const REASON_LENGTH_MAX = 1_000;

export const id = z
  .string()
  .regex(ID)
  .meta({ description: "The id of a job or an item: a lower-case UUID." });

export const idPrefix = z
  .string()
  .regex(/^[0-9a-fA-F-]{1,36}$/)
  .meta({
    description: "The start of an id: hexadecimal digits and hyphens, in upper or lower case.",
  });

export const instant = z.int().meta({ description: "Milliseconds since the Unix epoch." });
export const count = z.int().min(0);

/** Only the length and control characters are checked here; the library checks the rest. */
export const name = z.string().min(1).max(NAME_LENGTH_MAX).regex(TEXT);
export const key = z.string().min(1).max(KEY_LENGTH_MAX).regex(TEXT);
export const tag = z.string().min(1).max(TAG_LENGTH_MAX).regex(TEXT);
export const workerId = z.string().min(1).max(WORKER_LENGTH_MAX).regex(TEXT);
export const reason = z.string().max(REASON_LENGTH_MAX).regex(TEXT);
export const duration = z
  .union([z.string().max(DURATION_LENGTH_MAX), z.number()])
  .meta({ description: "Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m." });

export const durationText = z
  .string()
  .max(DURATION_LENGTH_MAX)
  .meta({ description: "A string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m." });

export const status = z.enum(statuses);

export const pageLimit = z
  .int()
  .min(1)
  .max(1_000)
  .meta({ description: "Maximum number of entries to return." });

export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    field: z.string().optional(),
    requestId: z.string(),
  })
  .meta({ id: "Problem", description: "A problem document (RFC 9457)." });
