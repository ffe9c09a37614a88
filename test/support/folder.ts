/** Folders for one test file, removed at its end, however it ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempFolder extends Disposable {
  /** A path in the folder that no one else was given. */
  file(ending: string): string;
}

export function tempFolder(): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  process.once("exit", remove);
  let given = 0;
  return {
    file(ending) {
      given += 1;
      return join(path, `${given}${ending}`);
    },
    [Symbol.dispose]: remove,
  };
}
