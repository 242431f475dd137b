module.exports = {
  // Ids by order: the default ones depend on the folder of the checkout, and CI compares the files.
  optimization: { moduleIds: 'natural' },
  module: {
    rules: [
      // Source maps of the built files lead to the TypeScript, not to what `tsc` made of it.
      { test: /\.js$/, enforce: 'pre', include: /[\\/]lib[\\/]/, extractSourceMap: true }
    ]
  }
};
