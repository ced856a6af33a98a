module hagane.dev/payload/echo

go 1.26.0
