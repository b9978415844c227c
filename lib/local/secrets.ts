// Secrets Manager on this machine: GetSecretValue over a fixed set of secrets.
import { type Service, ServiceError, serve } from './http-service.ts';

/** Serves secrets. @param secrets each secret's text by its ARN @param port 0: any free port */
export async function startSecrets(secrets: ReadonlyMap<string, string>, port = 0): Promise<Service> {
  return serve({ port, contentType: 'application/x-amz-json-1.1' }, async ({ headers, body }) => {
    const target = headers['x-amz-target'];
    if (target !== 'secretsmanager.GetSecretValue') {
      throw new ServiceError('InvalidRequestException', 400, `Unknown operation ${target}`);
    }
    const { SecretId: id = '' }: { SecretId?: string } = JSON.parse(body);
    const text = secrets.get(id);
    if (text === undefined) {
      throw new ServiceError('ResourceNotFoundException', 400, "Secrets Manager can't find the specified secret.");
    }
    const stages = ['AWSCURRENT'];
    return { body: { ARN: id, Name: id.split(':').at(-1), SecretString: text, VersionStages: stages } };
  });
}
