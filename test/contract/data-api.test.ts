// The contract with the RDS Data API: values, errors, limits, logins.
import { contract } from './contract-case.ts';
import { errorCases } from './data-api-errors.ts';
import { limitCases } from './data-api-limits.ts';
import { valueCases } from './data-api-values.ts';

contract([...valueCases, ...errorCases, ...limitCases]);
