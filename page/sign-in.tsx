/** Signing in with a token, and out. The token is sent once; a cookie that no script can read stands for it. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "./client.ts";
import { Mark } from "./icons.tsx";
import { closeStream, openStream, readSession, session } from "./live.ts";
import { Btn, type Children } from "./parts.tsx";
import { Problem, SubmitButton, useSubmit } from "./submit.tsx";
import "./sign-in.css";

export async function signOut(): Promise<void> {
  await post("session/end", {});
  closeStream();
  session.set("out");
}

export function SignIn(): JSX.Element {
  return (
    <main class="signin" id="main">
      <div class="panel body">
        <TokenForm>
          <p class="brand">
            <Mark />
            <span>Holdfast</span>
          </p>
          <div>
            <h1>Sign in</h1>
            <p class="dim">With a token that says what you may do: look, or also act.</p>
          </div>
        </TokenForm>
      </div>
    </main>
  );
}

/** Above the page, which stays as it is: what was typed is not lost. */
export function SessionEnded({ state }: { readonly state: "out" | "unnamed" }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  const said = (
    <>
      <h2 id="ended-h" class="vh">
        Your session ended
      </h2>
      <p class="dim">
        It lasted its time, or its token is no longer valid. What you see and what you typed stays
        here.
      </p>
    </>
  );
  return (
    <dialog
      class="ask modal"
      ref={box}
      aria-labelledby="ended-h"
      onCancel={(event) => event.preventDefault()}
    >
      {state === "out" ? (
        <TokenForm>{said}</TokenForm>
      ) : (
        <div class="stack tight">
          {said}
          <p>Sign in to the application again, in another tab, and then go on here.</p>
          <Btn kind="primary" onClick={readSession}>
            Go on
          </Btn>
        </div>
      )}
    </dialog>
  );
}

function TokenForm({ children }: { readonly children: Children }): JSX.Element {
  const [token, setToken] = useState("");
  const submission = useSubmit(async () => {
    if (token.trim() === "") return;
    session.set(await post("session", { token: token.trim() }));
    openStream();
    await readSession();
  });
  return (
    <form class="stack" onSubmit={submission.submit}>
      {children}
      <div class="field">
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          autofocus
          spellcheck={false}
          placeholder="hft_…"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </div>
      <Problem of={submission} />
      <SubmitButton of={submission}>Sign in</SubmitButton>
      <p class="sm dim">
        No token? On a machine with the database:
        <br />
        <code>holdfast tokens create --name you --role operator</code>
      </p>
    </form>
  );
}

/** Mounted in an application: its login decides. */
export function Unnamed(): JSX.Element {
  return (
    <main class="signin" id="main">
      <section class="panel body stack">
        <h1>Sign in to the application first</h1>
        <p class="dim">
          This dashboard stands behind the login of your application, which did not say who you are.
        </p>
        <Btn onClick={() => globalThis.location.reload()}>Try again</Btn>
      </section>
    </main>
  );
}
