/** A process that opens a URL and tells what became of it. A package that is named besides is not installed in it. */
import { registerHooks } from "node:module";

const [url = "", missing] = process.argv.slice(2);

registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== missing && !specifier.startsWith(`${missing}/`))
      return next(specifier, context);
    const error = new Error(`Cannot find package '${missing}' imported from ${context.parentURL}`);
    throw Object.assign(error, { code: "ERR_MODULE_NOT_FOUND" });
  },
});

const { HoldfastError, openHoldfast } = await import("../../src/index.ts");

try {
  await openHoldfast(url);
  console.log(JSON.stringify({ opened: true }));
} catch (error) {
  const ours = error instanceof HoldfastError;
  const { code, message, stack } = error as Error & { code?: string };
  console.log(JSON.stringify({ ours, code, message, stack }));
}
