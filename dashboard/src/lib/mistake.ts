/** What a person did wrong, as a sentence. */
export class Mistake extends Error {}
