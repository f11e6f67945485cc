import pulumi

settings = pulumi.Config()
kept = pulumi.Stash("kept", input="hello, " + settings.require("name"))

pulumi.export("greeting", kept.output)
pulumi.export("password", settings.require_secret("password"))
