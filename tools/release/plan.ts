import { nameRelease } from './names.ts';

/** One step of a release. */
export interface Step {
  readonly what: string;
  /** The command and its arguments. */
  readonly command: readonly string[];
  /** File that receives what the command writes. */
  readonly output?: string;
  /** True if others see the effect. Such a step needs `--push`. */
  readonly isPublic: boolean;
}

export interface ReleaseOptions {
  readonly version: string;
  /** Name of the image, perhaps with a registry. */
  readonly image: string;
  /** False if no images are built. */
  readonly hasImages: boolean;
  /** Folder of the tarball and the list of parts. */
  readonly folder: string;
  /** Commit that the images name, and the time of the release. */
  readonly revision: string;
  readonly created: string;
}

/** Lists the steps after the checks, in their order. Steps that others see come last. */
export function planRelease(options: ReleaseOptions): readonly Step[] {
  const { version, folder } = options;
  const names = nameRelease(version, options.image);
  const own = (what: string, command: readonly string[]): Step => ({ what, command, isPublic: false });
  const seen = (what: string, command: readonly string[]): Step => ({ what, command, isPublic: true });
  const images = options.hasImages ? names.images : [];
  // Without the dot, npm takes it for a repository at GitHub.
  const tarball = `./${folder}/${names.tarball}`;
  return [
    own('Commit the changelog', ['git', 'commit', '--message', `Release ${version}`, 'CHANGELOG.md']),
    own('Pack', ['npm', 'pack', '--pack-destination', folder]),
    { ...own('List all parts', ['npm', 'run', '--silent', 'sbom']), output: `${folder}/${names.sbom}` },
    ...images.map(({ target, tags }) =>
      own(`Build the image of the ${target}`, [
        ...['docker', 'build', '--target', target],
        ...['--build-arg', `VERSION=${version}`, '--build-arg', `REVISION=${options.revision}`],
        ...['--build-arg', `CREATED=${options.created}`],
        ...tags.flatMap((tag) => ['--tag', tag]),
        '.',
      ]),
    ),
    // After all that may fail.
    own('Tag the commit', ['git', 'tag', '--annotate', names.tag, '--message', `fulfilment-sync ${version}`]),
    seen('Push commit and tag', ['git', 'push', '--atomic', 'origin', 'main', names.tag]),
    // Provenance proves which commit and which CI run made the tarball. It needs a CI that npm knows.
    seen('Publish the package', ['npm', 'publish', tarball, '--provenance', '--tag', names.channel]),
    ...images.flatMap(({ tags }) => tags.map((tag) => seen(`Push the image ${tag}`, ['docker', 'push', tag]))),
  ];
}
