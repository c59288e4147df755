import manifest from '../../package.json' with { type: 'json' };

/** The version of this program, x.y.z. */
export const version = manifest.version;
