// A stand-in for one AWS endpoint, so that the real SDK clients meet partial failures, errors and silence.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the endpoint answers to one call: a body with status 200, an error, or nothing at all. */
export type EndpointAnswer = object | { readonly error: string; readonly status: number } | 'hang';

/** A running endpoint and the bodies of the calls it got, each try counted. */
export interface AwsEndpoint {
  readonly url: string;
  readonly calls: Record<string, unknown>[];
  readonly mostAtOnce: () => number;
  close(): Promise<void>;
}

/** Starts an endpoint on a free port; `answer` decides what each call gets. Sets the credentials the SDK asks for. */
export async function startAwsEndpoint(
  answer: (body: Record<string, never>, callNo: number) => EndpointAnswer | Promise<EndpointAnswer>,
): Promise<AwsEndpoint> {
  process.env.AWS_REGION = 'eu-central-1';
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  const calls: Record<string, unknown>[] = [];
  let atOnce = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, ++atOnce);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
      const callNo = calls.push(body);
      const answered = await answer(body, callNo);
      atOnce--;
      reply(response, answered);
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    mostAtOnce: () => most,
    close: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(() => closed()));
    },
  };
}

function reply(response: ServerResponse, answer: EndpointAnswer): void {
  if (answer === 'hang') return;
  const failed = 'error' in answer && 'status' in answer;
  response.writeHead(failed ? Number(answer.status) : 200, { 'content-type': 'application/x-amz-json-1.1' });
  response.end(JSON.stringify(failed ? { __type: answer.error, message: answer.error } : answer));
}
