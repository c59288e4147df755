import manifest from '../../package.json' with { type: 'json' };

/** Version of this code, x.y.z. */
export const version = manifest.version;
