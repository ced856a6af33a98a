module hagane.dev/payload/pause

go 1.26.0
