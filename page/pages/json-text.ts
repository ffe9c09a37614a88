/** The value of a text that a person typed. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`This is not JSON: ${error instanceof Error ? error.message : ""}`, {
      cause: error,
    });
  }
}
