import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { parseExact } from '../../core/json.ts';
import { readSqlState } from '../../db/transaction.ts';
import { newRow } from '../../push/check-payload.ts';
import { maxPayloadValues } from '../../push/payload.ts';
import { actOnOutbox, replaceOutbox } from '../../push/sql/operator-actions.ts';
import { type OutboxDetail, readOutbox } from '../../push/sql/read-outbox.ts';
import { type ApiDeps, ApiError, noSuchRow, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import { type CheckRequest, readBody, refuseRows } from './insert-route.ts';
import { idParams, newId } from './schemas.ts';

type IdRequest = FastifyRequest & { readonly params: unknown };

/** Registers the routes that change dead and pending rows, as the functions of the outbox do. */
export function registerChanges(
  app: FastifyInstance,
  { db }: ApiDeps,
  budget: Budget,
  check: CheckRequest,
): void {
  const readOwn = async (request: IdRequest): Promise<OutboxDetail> => {
    const { id } = request.params as z.output<typeof idParams>;
    const row = await readOutbox(db, id);
    if (row?.client === toCaller(request).client) return row;
    throw noSuchRow();
  };

  const replaceSchema: RouteSchemas = {
    summary: 'Replaces the payload of a dead or pending row, which is then sent in its place',
    params: idParams,
    body: newRow,
    response: { 200: newId },
  };
  const replaceOptions = { schema: replaceSchema, config: { right: 'write' } } as const;
  app.post('/v1/outbox/:id/replace', replaceOptions, async (request) => {
    const { rows } = await check(request);
    if (rows.problems.length > 0) throw refuseRows(rows.problems);
    if (rows.isList) throw new ApiError(422, 'Send one row, not a list');

    const sent = newRow.parse(
      parseExact(Buffer.from(readBody(request)).toString(), maxPayloadValues),
    );
    return budget.run(request, async () => {
      const row = await readOwn(request);
      if (row.kind !== sent.kind || row.reference !== sent.reference)
        throw new ApiError(422, `Row ${row.id} is ${row.kind} of ${row.reference}`);

      const time = sent.not_before ?? sent.notBefore;
      if (time !== undefined && Date.parse(time) !== row.notBefore?.getTime())
        throw new ApiError(422, `Row ${row.id} keeps its time: leave out not_before`);

      await replaceOutbox(db, row.id, JSON.stringify(sent.payload), nameCaller(request)).catch(
        (error: unknown) => {
          if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
          throw new ApiError(409, error.message);
        },
      );
      return { id: row.id };
    });
  });

  const cancelSchema: RouteSchemas = {
    summary: 'Cancels a dead or pending row: it is never sent',
    params: idParams,
    response: { 200: newId },
  };
  const cancelOptions = { schema: cancelSchema, config: { right: 'write' } } as const;
  app.post('/v1/outbox/:id/cancel', cancelOptions, (request) =>
    budget.run(request, async () => {
      const { id, status } = await readOwn(request);
      const by = nameCaller(request);
      const changed = await actOnOutbox(db, 'cancel', { ids: [id] }, { by });

      if (changed.length === 0)
        throw new ApiError(409, `Row ${id} is ${status}: only pending and dead rows are cancelled`);
      return { id };
    }),
  );
}

const nameCaller = (request: FastifyRequest) => `token ${toCaller(request).name}`;
