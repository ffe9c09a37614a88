/** Style sheets, which scripts/dashboard.ts puts into one file. */
declare module "*.css";
