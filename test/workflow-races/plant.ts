/** Loaded before everything else, with --import: plants the bug that the environment names. */
import { plant } from "../support/plant.ts";
import { plants } from "./plants.ts";

const { HOLDFAST_PLANT = "" } = process.env;

const patches = plants[HOLDFAST_PLANT];
if (patches === undefined) throw new Error(`No bug is called '${HOLDFAST_PLANT}'.`);
plant(patches);
