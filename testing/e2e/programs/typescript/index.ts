import * as pulumi from "@pulumi/pulumi";

const settings = new pulumi.Config();
const kept = new pulumi.Stash("kept", { input: `hello, ${settings.require("name")}` });

export const greeting = kept.output;
export const password = settings.requireSecret("password");
