/** Where the package's own files are: in a checkout the sources, in the published package bundles in one folder. */
import { dirname } from "node:path";

export const isCheckout = import.meta.url.endsWith(".ts");

/** The folder with all modules of the package. */
export const packageCode = isCheckout ? dirname(import.meta.dirname) : import.meta.dirname;

/** A file of the package by its path from the root, such as "package.json". */
export function packageFile(path: string): URL {
  return new URL(isCheckout ? `../../${path}` : `../${path}`, import.meta.url);
}

/** A module that starts a thread or a process, by its path in the sources, such as "worker/lease-renewer-thread". */
export function programFile(path: string): URL {
  return new URL(isCheckout ? `../${path}.ts` : `./${bundledName(path)}.js`, import.meta.url);
}

/** The name of a module in the folder of the published package. */
export function bundledName(path: string): string {
  return path.replaceAll("/", "-");
}

const CODE_ON_THE_COMMAND_LINE = new Set(["-e", "--eval", "-p", "--print", "-pe"]);

/** Whether this argument of Node, or its value, passes code on the command line. A thread or process that runs a file refuses it. */
export function isForCode(argument: string, index: number, given: readonly string[]): boolean {
  return (
    argument.startsWith("--input-type") ||
    CODE_ON_THE_COMMAND_LINE.has(argument) ||
    CODE_ON_THE_COMMAND_LINE.has(given[index - 1] ?? "")
  );
}
