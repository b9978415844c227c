// How the template says which contract a Lambda function carries out; free of the CDK, for those who read templates.

/** The key of that metadata; its value is the contract's name. */
export const functionMetadataKey = 'reminder-ledger:function';
