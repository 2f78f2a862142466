"""Train and measure models of Polyseme. The service never imports this package."""
