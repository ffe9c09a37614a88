/** What the shop uses of it. */
declare module "express" {
  import type { IncomingMessage, Server, ServerResponse } from "node:http";

  export interface Request extends IncomingMessage {
    readonly body: unknown;
  }
  export interface Response extends ServerResponse {
    status(code: number): this;
    json(body: unknown): this;
  }
  type Handler = (request: Request, response: Response, next: () => void) => unknown;
  interface App {
    use(...handlers: readonly (string | Handler)[]): void;
    get(path: string, handler: Handler): void;
    post(path: string, handler: Handler): void;
    listen(port: number, host: string, heard: () => void): Server;
  }
  function express(): App;
  namespace express {
    function json(): Handler;
  }
  export default express;
}
