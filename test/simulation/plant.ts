/** Loaded before everything else, with --import: plants the mutant that the environment names. */
import { plant } from "../support/plant.ts";
import { mutants } from "./mutants.ts";

const { HOLDFAST_MUTANT } = process.env;

const planted = mutants.find(({ name }) => name === HOLDFAST_MUTANT);
if (planted === undefined) throw new Error(`No mutant is called '${HOLDFAST_MUTANT}'.`);

/** The files that the process has never loaded. */
export const unplanted = plant(planted.patches);
