import { createHmac, randomBytes } from 'node:crypto';
import { Signer } from '@fastify/cookie';
import type { Database } from '../../../erp/connection/pool.ts';
import { readAdminSecret } from '../../../erp/maintenance/admin-secrets.ts';

/** Signs and checks the cookies of the admin pages. */
export interface SessionSigner extends Pick<Signer, 'sign' | 'unsign'> {
  /**
   * Loads the secret that the workers share. Call it before a session begins.
   * @throws Error if the database cannot be reached
   */
  readonly load: () => Promise<void>;
}

/**
 * Creates a signer. Its key is made of a random secret in schema sync and of the token. The secret keeps a cookie from
 * revealing the token, and a new token ends all sessions. Until the secret is loaded, the key is random.
 */
export function createSessionSigner(db: Database, token: string): SessionSigner {
  let signer = new Signer(randomBytes(32).toString('hex'));
  let isLoaded = false;
  return {
    sign: (value) => signer.sign(value),
    unsign: (value) => signer.unsign(value),
    load: async () => {
      if (isLoaded) return;
      const secret = await readAdminSecret(db, 'admin cookies');
      signer = new Signer(createHmac('sha256', secret).update(token).digest('hex'));
      isLoaded = true;
    },
  };
}
