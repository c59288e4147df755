import type { FastifyInstance } from 'fastify';
import { settings } from '../settings.ts';
import type { World } from '../world.ts';

/** Common operations (interface.md): token, status and settings. */
export function tokenAndSettingsRoutes(app: FastifyInstance, world: World): void {
  app.post('/token', { config: { operation: 'common.token', open: true } }, async (request, reply) => {
    const form = new URLSearchParams(typeof request.body === 'string' ? request.body : '');
    const username = form.get('username') ?? '';
    const known = form.get('grant_type') === 'password' && world.clientNames.includes(username);
    if (!known || form.get('password') !== username) {
      return reply
        .code(400)
        .send({ error: 'invalid_grant', error_description: 'The user name or password is incorrect.' });
    }
    const { tokenSeconds } = world.switches;
    const nowMs = world.clock.nowMs();
    return {
      access_token: world.issueToken(username),
      token_type: 'bearer',
      expires_in: tokenSeconds,
      userName: username,
      issued: new Date(nowMs).toUTCString(),
      expires: new Date(nowMs + tokenSeconds * 1_000).toUTCString(),
    };
  });

  app.get('/status/get', { config: { operation: 'common.status.get', open: true } }, async () => ({
    messageCode: 'OK',
    message: 'The service is up.',
    result: null,
  }));

  app.get('/settings/get', { config: { operation: 'common.settings.get' } }, async () => ({
    messageCode: 'OK',
    message: 'Settings',
    result: settings,
  }));
}
