/** One item: its legal moves as buttons, and who moved it, when and why. */
import type { JSX } from "preact";
import type {
  ChildrenIn,
  GetItemResponse,
  Item,
  ItemLine,
  LegalMove,
  UpdateItemRequest,
} from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { Glyph } from "../icons.tsx";
import { JsonPanel } from "../json.tsx";
import { useMay, useRead } from "../live.ts";
import { ask, reasonIn } from "../notices.ts";
import { Act, Ago, Crumbs, Head, Info, JobLink, Panel, Shown, Tag } from "../parts.tsx";
import { to } from "../router.ts";
import { parsed } from "./json-text.ts";
import "./item.css";

export function ItemPage({ id }: { readonly id: string }): JSX.Element {
  const from = useRead("items/{id}", { id });
  return (
    <Shown from={from} page="Item">
      {(answer) => <OneItem answer={answer} />}
    </Shown>
  );
}

function OneItem({ answer }: { readonly answer: GetItemResponse }): JSX.Element {
  const { item, moves, movable, history, progress } = answer;
  return (
    <>
      <Crumbs>
        {[
          <a href={to("workflows")}>Workflows</a>,
          <a href={to(["workflows", item.workflow])}>{item.workflow}</a>,
          <span class="mono dim">{item.id}</span>,
        ]}
      </Crumbs>
      <Head
        title={item.identifier}
        tag={<Tag>{item.status}</Tag>}
        say={
          <>
            {item.status} for <Ago at={item.enteredAt} />, revision {item.revision}, tenant{" "}
            {item.tenant}.{" "}
            {item.parent !== null && <a href={to(["items", item.parent])}>Its parent</a>}
          </>
        }
      />
      <div class="cols-side">
        <div class="stack">
          <Moves item={item} moves={moves} movable={movable} />
          <Trail history={history} />
        </div>
        <div class="stack">
          {progress.length > 0 && <Children progress={progress} />}
          <JsonPanel
            title="Data"
            value={item.data}
            none="None."
            right={
              movable && (
                <Act kind="quiet" onClick={() => askData(item)}>
                  Change…
                </Act>
              )
            }
          />
        </div>
      </div>
    </>
  );
}

function Moves({
  item,
  moves,
  movable,
}: {
  readonly item: Item;
  readonly moves: readonly LegalMove[];
  readonly movable: boolean;
}): JSX.Element {
  const { operator } = useMay();
  return (
    <Panel title="May move to">
      <div class="body line wrap moves">
        {moves.length === 0 && <span class="dim">Nothing: {item.status} is final.</span>}
        {moves.map((move) => (
          <span key={move.name} class="line wrap">
            {operator && movable ? (
              <Act onClick={() => askMove(item, move)}>
                {move.name} → {move.to}…
              </Act>
            ) : (
              <Tag>
                {move.name} → {move.to}
              </Tag>
            )}
            {move.allowed === false && (
              <span class="sm retry">
                refused as it is: {move.why ?? "the guard gives no reason"}
              </span>
            )}
          </span>
        ))}
      </div>
      {!movable && moves.length > 0 && (
        <footer>
          <Info>
            This server does not have the workflow’s code, so its guards cannot be asked. Move the
            item from your application.
          </Info>
        </footer>
      )}
    </Panel>
  );
}

function askMove(item: Item, move: LegalMove): void {
  ask({
    title: `${move.name} ${item.identifier}?`,
    body: (
      <p>
        {item.status} → {move.to}.{" "}
        {move.allowed === false &&
          `As it is, the guard refuses: ${move.why ?? "it gives no reason"}. Other data may change that. `}
        The guards of the workflow decide, and the move is in the item’s record for good.
      </p>
    ),
    fields: [
      {
        name: "patch",
        label: "Changes to its data (JSON)",
        kind: "area",
        value: "",
        hint: "empty: none",
      },
    ],
    reason: true,
    confirm: `${move.name} → ${move.to}`,
    run: (answers) => {
      const text = String(answers["patch"] ?? "").trim();
      return post("items/{id}/moves", {
        id: item.id,
        move: move.name,
        expect: item.revision,
        ...(text === "" ? {} : { patch: patchOf(text) }),
        ...reasonIn(answers),
      });
    },
  });
}

/** The server refuses what is no object. */
function patchOf(text: string): UpdateItemRequest["patch"] {
  return parsed(text) as UpdateItemRequest["patch"];
}

function askData(item: Item): void {
  ask({
    title: `Change the data of ${item.identifier}?`,
    body: <p>The fields you name are replaced; its state stays.</p>,
    wide: true,
    fields: [
      {
        name: "patch",
        label: "Changes (JSON)",
        kind: "area",
        value: JSON.stringify(item.data, null, 2),
        required: true,
      },
    ],
    reason: true,
    confirm: "Change it",
    run: (answers) =>
      post("items/{id}/update", {
        id: item.id,
        patch: patchOf(String(answers["patch"])),
        expect: item.revision,
        ...reasonIn(answers),
      }),
  });
}

function Trail({ history }: { readonly history: readonly ItemLine[] }): JSX.Element {
  return (
    <Panel
      title="What happened"
      footer={
        <Info>
          Every line holds the hash of the one before: the record cannot be changed unseen.
        </Info>
      }
    >
      <ol class="trail">
        {history.map((line) => (
          <li key={line.seq}>
            <time title={f.exact(line.at)}>{f.hourMinute(line.at)}</time>
            <Glyph status={line.action === "start" ? "pending" : "done"} />
            <div>
              <b>{line.move ?? line.action}</b>{" "}
              {line.oldStatus === null
                ? line.newStatus
                : line.oldStatus === line.newStatus
                  ? ""
                  : `${line.oldStatus} → ${line.newStatus}`}{" "}
              <span class="sm dim">
                {line.actor}
                {line.lockWaitMs !== null && `, lock waited ${f.span(line.lockWaitMs)}`}, revision{" "}
                {line.revision}
              </span>
              {line.reason !== null && <p class="sm dim wraps">“{line.reason}”</p>}
              {line.jobs.map((id) => (
                <p class="sm" key={id}>
                  <JobLink id={id}>enqueued {f.shortId(id)}</JobLink>
                </p>
              ))}
            </div>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Children({ progress }: { readonly progress: readonly ChildrenIn[] }): JSX.Element {
  const total = progress.reduce((sum, { children }) => sum + children, 0);
  const final = progress
    .filter(({ isFinal }) => isFinal)
    .reduce((sum, { children }) => sum + children, 0);
  return (
    <Panel title="Children" aside={f.count(total)}>
      <div class="body stack tight">
        <svg class="gauge tallg" role="img" aria-label={`${final} of ${total} finished`}>
          <rect class="g-bg" width="100%" height="8" rx="2" />
          <rect class="b-done" width={`${(final / Math.max(1, total)) * 100}%`} height="8" rx="2" />
        </svg>
        <ul class="sm">
          {progress.map(({ workflow, status, children }) => (
            <li class="line" key={`${workflow} ${status}`}>
              {status} <span class="faint">{workflow}</span>
              <span class="push">{f.count(children)}</span>
            </li>
          ))}
        </ul>
      </div>
    </Panel>
  );
}
