/**
 * What is left of a database whose file was deleted is in this process alone, and gone when it is closed: so it is written to a file
 * beside it first. So it is with one that was only moved: its last commits are in a log that did not go along, and SQLite does not
 * bring them into a file that is not at its path.
 */
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { createFile } from "./file.ts";
import type { FileGuard } from "./guard.ts";

/** There is no log down here, and nobody may have the last words but the process: a warning reaches whoever runs it. */
function warn(message: string): void {
  process.emitWarning(message, { type: "HoldfastWarning", code: "STORE_GONE" });
}

export function rescue(db: DatabaseSync, guard: FileGuard): void {
  const { path, rescuePath } = guard;
  try {
    // Else another connection, of this process or of another, was faster.
    if (!createFile(rescuePath)) return;
    fill(db, rescuePath);
    bringToDisk(rescuePath);
    warn(
      `${path} was deleted, moved or replaced while it was in use. What was in it is in ${rescuePath}.`,
    );
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    warn(
      `${path} was deleted, moved or replaced while it was in use, and what was in it could not be saved: ${words}`,
    );
  }
}

/** A file that stayed empty would keep the next one from trying. */
function fill(db: DatabaseSync, path: string): void {
  try {
    db.prepare("vacuum into ?").run(path);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
}

/** SQLite leaves that to the operating system. */
function bringToDisk(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
