/** The names under which a version is published. */
export interface ReleaseNames {
  /** The tag in git. */
  readonly tag: string;
  /** The tag at the registry of npm: what `npm install fulfilment-sync` takes is `latest`. */
  readonly channel: 'latest' | 'next';
  readonly tarball: string;
  readonly sbom: string;
  /** Each target of the Dockerfile, with the tags of its image. */
  readonly images: readonly { readonly target: string; readonly tags: readonly string[] }[];
}

/**
 * Names a version. The images of a final version also get the names that follow it: its minor version, from 1.0.0 on its
 * major version, and `latest`. A version before a final one, such as 1.0.0-rc.1, gets only its own name.
 * @param image name of the image, perhaps with a registry: ghcr.io/owner/fulfilment-sync
 * @throws Error if the version is not x.y.z or x.y.z-word.n
 */
export function nameRelease(version: string, image = 'fulfilment-sync'): ReleaseNames {
  const [, major = '', minor = '', before] = /^(\d+)\.(\d+)\.\d+(-[a-z]+\.\d+)?$/.exec(version) ?? [];
  if (major === '') throw new Error(`${version} is not a version such as 1.2.3 or 1.2.3-rc.1`);
  const isFinal = before === undefined;
  const following = isFinal ? [`${major}.${minor}`, ...(major === '0' ? [] : [major])] : [];
  return {
    tag: `v${version}`,
    channel: isFinal ? 'latest' : 'next',
    tarball: `fulfilment-sync-${version}.tgz`,
    sbom: `fulfilment-sync-${version}.cdx.json`,
    images: [
      {
        target: 'worker',
        tags: [version, ...following, ...(isFinal ? ['latest'] : [])].map((tag) => `${image}:${tag}`),
      },
      {
        target: 'sandbox',
        tags: [version, ...following, ...(isFinal ? ['latest'] : [])].map((tag) => `${image}-sandbox:${tag}`),
      },
    ],
  };
}
