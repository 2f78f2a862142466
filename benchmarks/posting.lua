-- Posts the lines of a file in turn: wrk ... -s posting.lua URL -- FILE ACCEPT
local requests, at = {}, 0

function init(args)
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Accept"] = args[2]
  for line in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, nil, line)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  print(string.format(
    '\n{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "errors": %d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, e.connect + e.read + e.write + e.status + e.timeout))
end
