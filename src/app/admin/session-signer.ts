import { randomBytes } from 'node:crypto';
import { Signer } from '@fastify/cookie';
import { readAdminSecret } from '../../erp/admin-secrets.ts';
import type { Database } from '../../erp/connect.ts';

/** Signs and checks the cookies of the admin pages. */
export interface SessionSigner extends Pick<Signer, 'sign' | 'unsign'> {
  /** Loads the secret that the workers share. Call it before a session begins. Throws if the database is away. */
  readonly load: () => Promise<void>;
}

/**
 * Signs with a random secret from schema sync. The secret does not depend on ADMIN_TOKEN: a cookie tells nothing about the
 * token. Until the secret is loaded, a random one of this process is used.
 */
export function createSessionSigner(db: Database): SessionSigner {
  let signer = new Signer(randomBytes(32).toString('hex'));
  let isLoaded = false;
  return {
    sign: (value) => signer.sign(value),
    unsign: (value) => signer.unsign(value),
    load: async () => {
      if (isLoaded) return;
      const secret = await readAdminSecret(db, 'admin cookies');
      signer = new Signer(secret.toString('hex'));
      isLoaded = true;
    },
  };
}
