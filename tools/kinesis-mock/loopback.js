// Loaded before kinesis-mock, which would listen on every interface and has no
// option to change that.
const { Server } = require('net')
const listen = Server.prototype.listen
Server.prototype.listen = function (port, done) {
  return listen.call(this, port, '127.0.0.1', done)
}
