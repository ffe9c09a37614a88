/** Every limit of the server, by name. Whoever comes over the network gets so much and no more. */

const SECOND_MS = 1_000;
const KIB = 1_024;

export const DEFAULT_LIMITS = {
  /** Of one request. What a job carries has a limit of its own, 256 KiB. */
  bodyBytes: 1_024 * KIB,
  headerBytes: 16 * KIB,
  /** Arrays and objects inside one another, and keys in all, of a body: counted before it is parsed. */
  jsonDepth: 64,
  jsonKeys: 100_000,
  /** How long a client may take to send the headers, and the whole request. */
  headersMs: 10 * SECOND_MS,
  requestMs: 30 * SECOND_MS,
  /** How long we may take to answer. */
  answerMs: 30 * SECOND_MS,
  keepAliveMs: 5 * SECOND_MS,
  /** When there are more, one that does nothing for a principal that was let in is closed. */
  connections: 1_000,
  /**
   * The same for one address, or one /64 network of IPv6. More than the 511 that the system lets wait to be accepted: a
   * proxy that sends all of these at once loses none.
   */
  connectionsEach: 600,
  /** Requests that stand behind another of their connection, of one connection with that one, and of all. */
  pipelinedEach: 8,
  pipelined: 500,
  /** Of answers that the client has not read: then it gets no further one. */
  unreadBytes: 1_024 * KIB,
  requestsPerConnection: 10_000,
  /** Streams at once, of all askers together and of one. */
  streams: 200,
  streamsEach: 50,
  /** What may wait for a slow client, in events. */
  streamBuffer: 1_000,
  /** A client that reads nothing for so long of what is there for it, stream or not, is cut off. */
  stallMs: 30 * SECOND_MS,
  heartbeatMs: 15 * SECOND_MS,
  /** Requests of one asker, or for one public path from one address: so many at once, and so many a second after that. */
  rateBurst: 2_000,
  ratePerSecond: 500,
  /** Wrong tokens from one address. */
  failureBurst: 20,
  failuresPerSecond: 1,
  /** Requests from one address that were refused before it was known who asks, or what for. */
  refusedBurst: 500,
  refusedPerSecond: 50,
  /** How many askers, addresses and tokens are remembered. */
  remembered: 10_000,
  /** How long it is believed what was found out about a token. */
  tokenMs: 3 * SECOND_MS,
  /** How long `close()` waits for requests under way. */
  closeMs: 5 * SECOND_MS,
  /** Longer than this nobody is at work on a request: whoever sends it again need not wait. */
  underWayMs: 45 * SECOND_MS,
  /** For how long an answer is kept for whoever repeats the request. */
  keepRequestsMs: 24 * 3_600 * SECOND_MS,
};

export type Limits = Readonly<typeof DEFAULT_LIMITS>;
