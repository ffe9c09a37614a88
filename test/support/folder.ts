/** Folders for one test file, removed at its end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempFolder extends Disposable {
  /** A path in the folder that no one else was given. */
  file(ending: string): string;
}

export function tempFolder(): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  let given = 0;
  return {
    file(ending) {
      given += 1;
      return join(path, `${given}${ending}`);
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
