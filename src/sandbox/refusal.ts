/** The part of a request that caused an error, as in JSON:API error objects. */
export interface ErrorSource {
  readonly parameter?: string;
  readonly pointer?: string;
}

/**
 * The error for a request that the service does not accept. v3 operations answer with its `status` and JSON:API errors;
 * older operations answer with a NOK envelope.
 */
export class Refusal extends Error {
  readonly status: number;
  readonly source: ErrorSource | undefined;

  constructor(status: number, detail: string, source?: ErrorSource) {
    super(detail);
    this.name = 'Refusal';
    this.status = status;
    this.source = source;
  }
}

/** Returns the refusal of a wrong query parameter. */
export function badParameter(parameter: string, detail: string): Refusal {
  return new Refusal(400, `${parameter} ${detail}`, { parameter });
}

/** Returns the refusal of a request for something that does not exist, or that belongs to another client. */
export function notFound(what: string): Refusal {
  return new Refusal(404, `There is no such ${what}`);
}

/**
 * Returns the refusal of a request that breaks a rule of the service.
 * @param pointer the place of the wrong member in the body
 */
export function ruleBroken(detail: string, pointer?: string): Refusal {
  return new Refusal(422, detail, pointer === undefined ? undefined : { pointer });
}
