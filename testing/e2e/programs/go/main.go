package main

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"
)

func main() {
	pulumi.Run(func(ctx *pulumi.Context) error {
		settings := config.New(ctx, "")
		greeting := pulumi.String("hello, " + settings.Require("name"))
		kept, err := pulumi.NewStash(ctx, "kept", &pulumi.StashArgs{Input: greeting})
		if err != nil {
			return err
		}
		ctx.Export("greeting", kept.Output)
		ctx.Export("password", settings.RequireSecret("password"))
		return nil
	})
}
