/** Where in a request the trouble is (JSON:API, error objects). */
export interface Source {
  readonly parameter?: string;
  readonly pointer?: string;
}

/**
 * A request that the service does not accept. v3 operations answer it with `status` and JSON:API errors, older ones with
 * a NOK envelope.
 */
export class Refusal extends Error {
  readonly status: number;
  readonly source: Source | undefined;

  constructor(status: number, detail: string, source?: Source) {
    super(detail);
    this.name = 'Refusal';
    this.status = status;
    this.source = source;
  }
}

/** A query parameter that is wrong. */
export function badParameter(parameter: string, detail: string): Refusal {
  return new Refusal(400, `${parameter} ${detail}`, { parameter });
}

/** What was asked for does not exist, or is not this client's. */
export function notFound(what: string): Refusal {
  return new Refusal(404, `There is no such ${what}`);
}

/** A rule of the service that the request breaks; `pointer` is the member's place in the body. */
export function ruleBroken(detail: string, pointer?: string): Refusal {
  return new Refusal(422, detail, pointer === undefined ? undefined : { pointer });
}
