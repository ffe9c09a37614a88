export const FUNCTIONS = "";
