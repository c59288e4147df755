/**
 * The package `fulfilment-sync/client` for programs of the ERP: rows for the outbox, the feed with a checkpoint, and the
 * types of all tables. It works on connections of the package `pg` that the program opens. It imports neither pg nor
 * other parts of this project than the schemas of payloads.
 */

export { type Connection, ConnectionLostError, type Pool, type Queryable } from './connection.ts';
export {
  type Change,
  consumeChanges,
  type HandleOptions,
  handleChanges,
  readChangesSince,
  startConsumer,
} from './feed.ts';
export { type FollowOptions, followChanges } from './follow.ts';
export type * from './generated/payloads.ts';
export type * from './generated/rows.ts';
export {
  checkPayload,
  type InsertOptions,
  insertOutboxRow,
  type OutboxRequest,
  type PayloadProblem,
  PayloadRefusedError,
} from './outbox.ts';
export { type OrderState, type RelationName, type RowName, readOrderState, readRow, selectList } from './rows.ts';
