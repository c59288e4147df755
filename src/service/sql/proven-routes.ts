import type { Operation } from '../../../config/operations.ts';
import type { Database } from '../../db/pool.ts';

/** The method and path of an operation; `documented`: they are known to be right. */
type Route = Pick<Operation, 'method' | 'path' | 'documented'>;

/**
 * The kinds and jobs of one client that its service has carried out, and the operations that found
 * a resource. Their assumed route is right, so a later refusal has another cause.
 */
export class ProvenRoutes {
  readonly #db: Database;
  readonly #client: string;
  /** Names whose proof this process has seen. */
  readonly #known = new Set<string>();

  constructor(db: Database, client: string) {
    this.#db = db;
    this.#client = client;
  }

  /** Returns true if the route of a kind, job or operation is right. Reads the database only in doubt. */
  async has(kind: string, { documented, method, path }: Route): Promise<boolean> {
    if (documented || this.#known.has(kind)) return true;

    const proof = await this.#db
      .selectFrom('sync.proven_kinds')
      .select('kind')
      .where('client', '=', this.#client)
      .where('kind', '=', kind)
      .where('method', '=', method)
      .where('path', '=', path)
      .executeTakeFirst();
    if (proof !== undefined) this.#known.add(kind);
    return proof !== undefined;
  }

  /** Records for all workers that the route of a kind, job or operation is right. Writes once. */
  async add(kind: string, { documented, method, path }: Route): Promise<void> {
    if (documented || this.#known.has(kind)) return;

    await this.#db
      .insertInto('sync.proven_kinds')
      .values({ client: this.#client, kind, method, path })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    this.#known.add(kind);
  }
}
