/** Reads a Dockerfile: its stages, and in them the instructions with the flags they have. */

export interface Instruction {
  readonly name: string;
  /** `--from=build` and the like; of a HEALTHCHECK, its intervals. */
  readonly flags: ReadonlyMap<string, string>;
  /** The rest, as it stands: variables are put in when it is carried out. */
  readonly rest: string;
}

export interface Stage {
  /** What FROM names, with the variables of before the first stage put in. */
  readonly image: string;
  readonly name: string | null;
  readonly instructions: readonly Instruction[];
}

export type Variables = ReadonlyMap<string, string>;

export function readDockerfile(text: string): Stage[] {
  const globals = new Map<string, string>();
  const stages: { image: string; name: string | null; instructions: Instruction[] }[] = [];
  for (const each of instructionsOf(text)) {
    const current = stages.at(-1);
    if (each.name === "FROM") {
      const [image = "", , name = null] = each.rest.split(/\s+/);
      stages.push({ image: putIn(image, globals), name, instructions: [] });
    } else if (current === undefined) {
      for (const [name, value] of assignments(each.rest, globals)) globals.set(name, value);
    } else {
      current.instructions.push(each);
    }
  }
  return stages;
}

/** The one that becomes the image. */
export function finalStage(stages: readonly Stage[]): Stage {
  const last = stages.at(-1);
  if (last === undefined) throw new Error("the Dockerfile has no stage");
  return last;
}

/** The last of its name: Docker lets the later one win. */
export function instruction(stage: Stage, name: string): Instruction {
  const found = stage.instructions.findLast((each) => each.name === name);
  if (found === undefined) throw new Error(`the stage has no ${name}`);
  return found;
}

/** `["node", "file.mjs"]`. A command that is not of this form would run in a shell, which hears no signals. */
export function execForm(rest: string): string[] {
  return JSON.parse(rest) as string[];
}

/** `A=1 B="two words"`, as ENV, ARG and LABEL have it. */
export function assignments(rest: string, variables: Variables): [string, string][] {
  return [...rest.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S*))/g)].map(
    ([, name = "", quoted, bare = ""]) => [name, putIn(quoted ?? bare, variables)],
  );
}

/** `$NAME`, `${NAME}`: one that is not known is empty. */
export function putIn(text: string, variables: Variables): string {
  return text.replaceAll(
    /\$(?:\{(\w+)\}|(\w+))/g,
    (_all, braced: string | undefined, bare: string | undefined) =>
      variables.get(braced ?? bare ?? "") ?? "",
  );
}

function instructionsOf(text: string): Instruction[] {
  const lines = text.split("\n").filter((line) => !/^\s*(#|$)/.test(line));
  const whole = lines.join("\n").replaceAll(/\\\n\s*/g, " ");
  return whole.split("\n").map((line) => {
    const [, name = "", flags = "", rest = ""] = /^(\w+)\s+((?:--\S+\s+)*)(.*)$/.exec(line) ?? [];
    const named = [...flags.matchAll(/--(\S+?)=(\S+)/g)];
    return {
      name: name.toUpperCase(),
      flags: new Map(named.map(([, flag = "", value = ""]) => [flag, value])),
      rest: rest.trim(),
    };
  });
}
