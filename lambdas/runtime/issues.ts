// What is wrong with a request, in the words of a contract: a path and what to do, a field each.

/** As a schema tells it: zod's errors are such. */
interface SchemaError {
  readonly issues: readonly {
    readonly path: readonly PropertyKey[];
    readonly message: string;
    /** The fields that it does not know. */
    readonly keys?: readonly string[];
    readonly code?: string;
  }[];
}

/**
 * The issues that a schema found; each field that it does not know is one of its own.
 * @param whole what the request as a whole is called, where an issue names no field
 * @param kind what the request is, for a field that it has not
 */
export function issuesOf(error: SchemaError, whole: string, kind: string): { path: string; message: string }[] {
  return error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' && issue.keys
      ? issue.keys.map((key) => ({
          path: [...issue.path.map(String), key].join('.'),
          message: `is no field of this ${kind}`,
        }))
      : [{ path: issue.path.map(String).join('.') || whole, message: issue.message }],
  );
}
